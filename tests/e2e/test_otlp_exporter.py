"""OpenTelemetry's own exporter sends to a server of ours, and the agent is watched."""

import time
from typing import Any

import httpx2
import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from homeostat import SyncClient
from homeostat.testing.homeostat import HomeostatServer


def learned(url: str) -> dict[str, Any]:
    """What is normal for the agent, as soon as that is known."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        health = httpx2.get(f"{url}/v1/agents/otel-1/health", trust_env=False).json()
        if health["phase"] == "healthy":
            return next(one for one in health["baseline"] if one["vital"] == "tokens_in")
        time.sleep(0.1)
    raise AssertionError("it was never known what is normal")


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
def test_the_sdk_s_exporter_is_understood(compression: Compression) -> None:
    with HomeostatServer() as server, SyncClient(server.url) as client:
        key = client.register("researcher", agent_id="otel-1").api_key
        exporter = OTLPSpanExporter(
            endpoint=f"{server.url}/otlp/v1/traces",
            headers={"authorization": f"Bearer {key}"},
            compression=compression,
        )
        provider = TracerProvider(resource=Resource({"service.name": "researcher"}))
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        tracer = provider.get_tracer("test")
        for number in range(40):
            with tracer.start_as_current_span("chat gpt-4o-mini") as span:
                span.set_attributes(
                    {
                        "gen_ai.operation.name": "chat",
                        "gen_ai.provider.name": "openai",
                        "gen_ai.request.model": "gpt-4o-mini",
                        "gen_ai.usage.input_tokens": 400 + number % 7,
                        "gen_ai.usage.output_tokens": 90 + number % 5,
                    }
                )
        provider.shutdown()
        tokens = learned(server.url)
        assert 400 <= tokens["mean"] <= 407

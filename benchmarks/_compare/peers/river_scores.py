"""Anomaly scores of River's detectors on streams: `river_scores.py streams.csv.gz scores.json.gz`."""

import csv
import gzip
import json
import sys
import time
from collections import defaultdict

from river import anomaly, compose, preprocessing

DETECTORS = {
    "GaussianScorer": lambda: anomaly.GaussianScorer(window_size=None, grace_period=100),
    "GaussianScorer, window 500": lambda: anomaly.GaussianScorer(window_size=500, grace_period=100),
    "StandardAbsoluteDeviation": anomaly.StandardAbsoluteDeviation,
    "HalfSpaceTrees": lambda: compose.Pipeline(
        preprocessing.MinMaxScaler(), anomaly.HalfSpaceTrees(n_trees=10, height=6, window_size=250, seed=1)
    ),
}


def main() -> None:
    streams: dict[str, list[float]] = defaultdict(list)
    with gzip.open(sys.argv[1], "rt") as file:
        for row in csv.DictReader(file):
            streams[row["file"]].append(float(row["value"]))
    said = {}
    for name, make in DETECTORS.items():
        began = time.process_time()
        scores = {}
        for stream, values in streams.items():
            detector, univariate = make(), name != "HalfSpaceTrees"
            given = scores[stream] = []
            for value in values:
                if univariate:
                    given.append(float(detector.score_one(None, value)))
                    detector.learn_one(None, value)
                else:
                    given.append(float(detector.score_one({"value": value})))
                    detector.learn_one({"value": value})
        samples = sum(map(len, streams.values()))
        said[name] = {"scores": scores, "microseconds": (time.process_time() - began) / samples * 1e6}
    with gzip.open(sys.argv[2], "wt") as file:
        json.dump(said, file)


main()

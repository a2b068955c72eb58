"""The room as its neighbours see it."""

from homeostat.access.keys import Keys
from homeostat.access.logins import Logins
from homeostat.core.chain import Verdict, Verifier
from homeostat.core.clock import Clock
from homeostat.core.ids import Ids
from homeostat.core.ports.access import AccessStore

AUDIT_READ_MAX = 1_000


class Access:
    """Keys, logins and the log of what operators did. `required` says whether somebody has to log in at all."""

    def __init__(self, *, store: AccessStore, clock: Clock, ids: Ids, required: bool) -> None:
        self.store = store
        self.required = required
        self.keys = Keys(store=store, clock=clock, ids=ids)
        self.logins = Logins(store=store, keys=self.keys, clock=clock, ids=ids)

    async def verify(self) -> Verdict:
        """Read the whole log and say whether it is as it was written."""
        verifier, after = Verifier(), 0
        while entries := await self.store.audit_from(after, AUDIT_READ_MAX):
            verifier.add(entries)
            after = entries[-1].seq
        return verifier.verdict

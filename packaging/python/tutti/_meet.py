"""How ranks of other libraries get one unique id."""
from .config import UniqueId, get_unique_id


def by_mpi(comm):
    """Of an mpi4py communicator: rank 0 makes it, and everybody hears why where that failed."""
    made = failure = None
    if comm.rank == 0:
        try:
            made = bytes(get_unique_id())
        except Exception as error:  # noqa: BLE001  the other ranks wait for the broadcast
            failure = error
    made, said = comm.bcast((made, str(failure) if failure else None), root=0)
    if failure is not None:
        raise failure
    if made is None:
        from .errors import RemoteError
        raise RemoteError(f"rank 0 could not make a rendezvous: {said}")
    return UniqueId(made)

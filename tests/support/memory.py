"""Memory that the program and one test keep, with nothing of what goes on beside them."""

import gc
import tracemalloc


def memory_kept(test: str) -> int:
    """The bytes that lines of the program, and of the file of the *test*, allocated since tracing began, and keep.

    Threads of other tests, and what their garbage makes when it is collected, allocate in the meantime too.
    """
    gc.collect()
    ours = [tracemalloc.Filter(True, test), tracemalloc.Filter(True, "*/geolookup/*")]
    return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces(ours).traces)

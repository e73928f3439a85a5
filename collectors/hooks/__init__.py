"""Marks that a program sets about itself.

```python
from cctrace.collectors.hooks import step

with step("decode bs=16"):
    run_one_scheduler_iteration()
```

Without a recorder a mark costs a fraction of a microsecond and does nothing. Nothing here can fail in the
program's face: a missing or foreign library only means that no marks are recorded.
"""

from cctrace.collectors.hooks.marks import flush, recording, step, step_begin, step_end

__all__ = ["flush", "recording", "step", "step_begin", "step_end"]

"""Attribution: which cause makes the steps of the on arm longer, and by how much.

Read in this order: `result` (what comes out), `engine` (how the parts fit together), and then the parts in
the order in which they run; docs/attribution.md explains the method.

- What is compared: `classes`, `rows`, `timeline`, `ranks`.
- What each arm tells by itself: `handover`, `own_cost`, `copy_cost`, `device` with `gpu_work` and `gpu_fit`,
  `kernel_times`, `collectives`, `recorder_tax`.
- One program of both arms: `align`, `pairing`, `costs`, `program`, `gpu_program`.
- What would be without a cause: `replay` with `queues`, `shapley`, `lmdi`, `sites`.
- What may be said: `knowledge`, `breakdown`.
"""

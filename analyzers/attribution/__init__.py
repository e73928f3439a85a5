"""Attribution: which cause makes the steps of the on arm longer, and by how much.

Read in this order: `result` (what comes out), `engine` (how the parts fit together), and then the parts in
the order in which they run: `classes`, `own_cost`, `align`, `program`, `replay`, `shapley`, `lmdi`.
"""

"""Recording a command: its spool folder, its environment, its supervision, and the trace at the end."""

"""Everything that runs while a program is recorded, and the conversion of what it leaves."""

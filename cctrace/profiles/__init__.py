"""Platform profiles: what confidential computing costs, each value with its source and uncertainty."""

from cctrace.profiles.emulation import Emulation, parse_emulation
from cctrace.profiles.loader import Cost, Profile, load_profile, profile_names

__all__ = ["Cost", "Emulation", "Profile", "load_profile", "parse_emulation", "profile_names"]

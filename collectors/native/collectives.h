// Which kernels move data between GPUs, by their symbols: most of them never pass through NCCL.
#pragma once

#include <cstdint>

namespace cctrace {
namespace collectives {

// What a transfer is to the emulator: each kind has a factor of its own.
enum class Kind : uint8_t { none, collective, all_to_all, peer_copy };

struct Kernel {
  Kind kind = Kind::none;
  bool nccl = false;   // NCCL launched it: the host call says what it carries
  uint16_t ranks = 0;  // as the symbol says; 0: it does not
};

// What the kernel of this symbol (mangled or not) is.
Kernel recognize(const char* symbol);

}  // namespace collectives
}  // namespace cctrace

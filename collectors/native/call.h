// Reading a driver call's arguments into a record, by the types of the arguments and the shape of the call.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "record.h"

namespace cctrace {

enum class Shape : uint8_t {
  nothing,     // no size; stream, event, function and graph are told by their types
  sized,       // the last size is the bytes, the first pointer the object
  allocation,  // the same, but the pointer is an output
  counted,     // a batch: sizes[count]
  pitch,       // bytes = width x height
  copy_h2d,
  copy_d2h,
  copy_d2d,
  copy_p2p,
  copy_any,  // the pointers say the direction
  copy_2d,
  copy_3d,
  copy_3d_peer,
  copy_batch,
  copy_3d_batch,
  set_8,
  set_16,
  set_32,
  set_2d_8,
  set_2d_16,
  set_2d_32,
};

struct Call {
  uint64_t stream = 0;
  uint64_t object = 0;
  uint64_t sizes[3] = {};
  uint32_t size_count = 0;
  uint64_t pointers[2] = {};  // of copies: destination, then source
  uint32_t pointer_count = 0;
  void* const* out = nullptr;  // where an allocation puts its pointer
  CUfunction function = nullptr;
  const size_t* batch_sizes = nullptr;
  const CUdeviceptr* batch[2] = {};  // destinations, then sources
  const CUDA_MEMCPY3D_BATCH_OP* operations = nullptr;
  uint8_t memory = 0;
  uint8_t copy_kind = kNoCopy;
  uint64_t bytes = 0;
};

template <class T>
uint64_t bits(T* p) {
  return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(p));
}

inline void pointer(Call& c, uint64_t p) {
  if (c.pointer_count < 2) c.pointers[c.pointer_count++] = p;
}

// One overload per argument type that means something; everything else is ignored.
inline void read(Call& c, CUstream s) { c.stream = bits(s); }
inline void read(Call& c, CUevent e) { c.object = bits(e); }
inline void read(Call& c, CUgraphExec g) { c.object = bits(g); }
inline void read(Call& c, CUfunction f) {
  c.object = bits(f);
  c.function = f;
}
inline void read(Call& c, const CUlaunchConfig* config) {
  if (config) c.stream = bits(config->hStream);
}
inline void read(Call& c, CUDA_LAUNCH_PARAMS* launches) {
  if (launches) read(c, launches->hStream);
}
inline void read(Call& c, size_t size) {
  if (c.size_count < 3) c.sizes[c.size_count++] = size;
}
inline void read(Call& c, CUdeviceptr p) { pointer(c, p); }
inline void read(Call& c, void* p) { pointer(c, bits(p)); }
inline void read(Call& c, const void* p) { pointer(c, bits(p)); }
inline void read(Call& c, void** out) { c.out = out; }
inline void read(Call& c, CUdeviceptr* list) {
  if (!c.batch[0]) {
    c.batch[0] = list;
  } else if (!c.batch[1]) {
    c.batch[1] = list;
  }
}
inline void read(Call& c, size_t* sizes) {
  if (!c.batch_sizes) c.batch_sizes = sizes;
}
inline void read(Call& c, const size_t* sizes) { read(c, const_cast<size_t*>(sizes)); }

uint8_t memory_of(CUmemorytype type);
void read(Call& c, const CUDA_MEMCPY2D* copy);
void read(Call& c, const CUDA_MEMCPY3D* copy);
void read(Call& c, const CUDA_MEMCPY3D_PEER* copy);
inline void read(Call& c, CUDA_MEMCPY3D_BATCH_OP* operations) { c.operations = operations; }

template <class T>
inline void read(Call&, T) {}

// Kind of the memory behind a pointer, as the driver knows it: a page-locked pointer is pinned, an unknown
// one pageable.
uint8_t memory_kind(uint64_t pointer);

// Completes bytes, direction and memory kinds once all arguments are read. Asks the driver about host
// pointers only. A batch has the sum of the bytes, and the rest of its first copy.
void finish(Call& c, Shape shape);

// The size given last: the bytes of a copy without structure, of an allocation, of a registration.
inline uint64_t last_size(const Call& c) { return c.size_count ? c.sizes[c.size_count - 1] : 0; }

// One of the copies that a call asks for.
struct Copy {
  uint64_t bytes;
  uint8_t memory;  // as in a record
  uint8_t kind;
};

// How many there are in a finished call, and which they are. Those of a batch are asked of the driver each
// time.
uint64_t copy_count(const Call& c, Shape shape);
Copy copy_at(const Call& c, Shape shape, uint64_t index);

}  // namespace cctrace

#include "call.h"

#include "driver.h"
#include "tax.h"

namespace cctrace {
namespace {

uint8_t pack(uint8_t source, uint8_t destination) { return static_cast<uint8_t>(source | destination << 4); }

bool on_device(uint8_t memory) { return memory == kDevice || memory == kArray || memory == kManaged; }

uint8_t direction(uint8_t source, uint8_t destination) {
  if (on_device(source)) return on_device(destination) ? kD2D : kD2H;
  return on_device(destination) ? kH2D : kH2H;
}

Copy between(uint8_t source, uint8_t destination, uint64_t bytes) {
  return {bytes, pack(source, destination), direction(source, destination)};
}

void describe(Call& c, const Copy& copy) {
  c.memory = copy.memory;
  c.copy_kind = copy.kind;
}

void by_pointers(Call& c, uint64_t destination, uint64_t source) {
  describe(c, between(memory_kind(source), memory_kind(destination), 0));
  tax::measure_pointer_query(source, destination);
}

uint64_t product(uint64_t a, uint64_t b) {
  uint64_t result;
  return __builtin_mul_overflow(a, b, &result) ? UINT64_MAX : result;
}

// Sides of a strided copy: a declared host or unified pointer is looked up, the rest is known.
uint8_t side(CUmemorytype type, uint64_t host, uint64_t device) {
  if (type == CU_MEMORYTYPE_HOST) return memory_kind(host);
  if (type == CU_MEMORYTYPE_UNIFIED) return memory_kind(device);
  return type == CU_MEMORYTYPE_ARRAY ? kArray : kDevice;
}

template <class Copy>
void strided(Call& c, const Copy* copy, uint64_t depth) {
  const uint8_t from = side(copy->srcMemoryType, bits(copy->srcHost), copy->srcDevice);
  const uint8_t to = side(copy->dstMemoryType, bits(copy->dstHost), copy->dstDevice);
  describe(c, between(from, to, 0));
  c.bytes = product(product(copy->WidthInBytes, copy->Height), depth);
}

uint64_t sum(const size_t* sizes, uint64_t count) {
  uint64_t total = 0;
  for (uint64_t i = 0; sizes && i < count; i++) total += sizes[i];
  return total;
}

uint8_t operand(const CUmemcpy3DOperand& o) {
  return o.type == CU_MEMCPY_OPERAND_TYPE_ARRAY ? uint8_t{kArray} : memory_kind(o.op.ptr.ptr);
}

Copy strided_at(const CUDA_MEMCPY3D_BATCH_OP& operation) {
  const CUextent3D& e = operation.extent;
  return between(operand(operation.src), operand(operation.dst),
                 product(product(e.width, e.height), e.depth));
}

uint64_t strided_sum(const CUDA_MEMCPY3D_BATCH_OP* operations, uint64_t count) {
  uint64_t total = 0;
  for (uint64_t i = 0; i < count; i++) {
    const CUextent3D& e = operations[i].extent;
    total += product(product(e.width, e.height), e.depth);
  }
  return total;
}

// (destination, pitch, value, width, height)
uint64_t set_2d(const Call& c, uint64_t element) { return product(product(c.sizes[1], c.sizes[2]), element); }

}  // namespace

void read(Call& c, const CUDA_MEMCPY2D* copy) {
  if (copy) strided(c, copy, 1);
}

void read(Call& c, const CUDA_MEMCPY3D* copy) {
  if (copy) strided(c, copy, copy->Depth);
}

void read(Call& c, const CUDA_MEMCPY3D_PEER* copy) {
  if (!copy) return;
  strided(c, copy, copy->Depth);
  if (copy->srcContext != copy->dstContext && c.copy_kind == kD2D) c.copy_kind = kP2P;
}

uint8_t memory_kind(uint64_t pointer) {
  using Query = CUresult (*)(unsigned, CUpointer_attribute*, void**, CUdeviceptr);
  static const auto query = driver::function<Query>("cuPointerGetAttributes");
  unsigned type = 0;
  int managed = 0;
  CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED};
  void* answers[] = {&type, &managed};
  if (!query || query(2, wanted, answers, pointer) != CUDA_SUCCESS) return kMemUnknown;
  if (managed) return kManaged;
  switch (type) {
    case CU_MEMORYTYPE_HOST:
      return kPinned;
    case CU_MEMORYTYPE_DEVICE:
      return kDevice;
    case CU_MEMORYTYPE_ARRAY:
      return kArray;
    case CU_MEMORYTYPE_UNIFIED:
      return kManaged;
    default:
      return kPageable;  // the driver does not know it
  }
}

void finish(Call& c, Shape shape) {
  switch (shape) {
    case Shape::nothing:
      break;
    case Shape::sized:
      c.bytes = last_size(c);
      c.object = c.pointers[0];
      break;
    case Shape::allocation:
      c.bytes = last_size(c);
      c.object = c.out ? bits(*c.out) : 0;
      break;
    case Shape::counted:
      c.bytes = sum(c.batch_sizes, c.sizes[0]);
      break;
    case Shape::pitch:
      c.bytes = product(c.sizes[0], c.sizes[1]);
      break;
    case Shape::copy_h2d:
      c.bytes = last_size(c);
      c.copy_kind = kH2D;
      // (device, host) or (array, host): the host pointer is the last one.
      if (c.pointer_count) {
        const uint64_t host = c.pointers[c.pointer_count - 1];
        c.memory = pack(memory_kind(host), c.pointer_count == 2 ? kDevice : kArray);
        tax::measure_pointer_query(host, host);
      }
      break;
    case Shape::copy_d2h:
      c.bytes = last_size(c);
      c.copy_kind = kD2H;
      if (c.pointer_count) {
        c.memory = pack(c.pointer_count == 2 ? kDevice : kArray, memory_kind(c.pointers[0]));
        tax::measure_pointer_query(c.pointers[0], c.pointers[0]);
      }
      break;
    case Shape::copy_d2d:
      c.bytes = last_size(c);
      c.copy_kind = kD2D;
      c.memory = pack(kDevice, kDevice);
      break;
    case Shape::copy_p2p:
      c.bytes = last_size(c);
      c.copy_kind = kP2P;
      c.memory = pack(kDevice, kDevice);
      break;
    case Shape::copy_any:
      c.bytes = last_size(c);
      by_pointers(c, c.pointers[0], c.pointers[1]);
      break;
    case Shape::copy_2d:
    case Shape::copy_3d:
    case Shape::copy_3d_peer:
      break;  // read() did it
    case Shape::copy_batch:
      c.bytes = sum(c.batch_sizes, c.sizes[0]);
      if (copy_count(c, shape)) by_pointers(c, c.batch[0][0], c.batch[1][0]);
      break;
    case Shape::copy_3d_batch:
      c.copy_kind = kOtherCopy;
      c.bytes = strided_sum(c.operations, copy_count(c, shape));
      if (copy_count(c, shape)) describe(c, strided_at(c.operations[0]));
      break;
    case Shape::set_8:
      c.bytes = last_size(c);
      break;
    case Shape::set_16:
      c.bytes = product(last_size(c), 2);
      break;
    case Shape::set_32:
      c.bytes = product(last_size(c), 4);
      break;
    case Shape::set_2d_8:
      c.bytes = set_2d(c, 1);
      break;
    case Shape::set_2d_16:
      c.bytes = set_2d(c, 2);
      break;
    case Shape::set_2d_32:
      c.bytes = set_2d(c, 4);
      break;
  }
}

uint64_t copy_count(const Call& c, Shape shape) {
  switch (shape) {
    case Shape::copy_batch:
      return c.batch[0] && c.batch[1] && c.batch_sizes ? c.sizes[0] : 0;
    case Shape::copy_3d_batch:
      return c.operations ? c.sizes[0] : 0;
    default:
      return 1;
  }
}

Copy copy_at(const Call& c, Shape shape, uint64_t index) {
  switch (shape) {
    case Shape::copy_batch:
      return between(memory_kind(c.batch[1][index]), memory_kind(c.batch[0][index]), c.batch_sizes[index]);
    case Shape::copy_3d_batch:
      return strided_at(c.operations[index]);
    default:
      return {c.bytes, c.memory, c.copy_kind};
  }
}

}  // namespace cctrace

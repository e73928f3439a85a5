// What happens around one wrapped call of NCCL.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "collectives.h"
#include "nccl_communicators.h"
#include "record.h"
#include "spool.h"

namespace cctrace {
namespace nccl {

enum class Result : int { success = 0 };
enum class DataType : int {};
enum class ReduceOperation : int {};

enum class Role : uint8_t { operation, send_or_receive, group_start, group_end, communicator_gone };
enum class Scale : uint8_t { one, each };

// One row of nccl_api.def.
struct Function {
  const char* symbol;
  Role role;
  collectives::Kind kind;
  Scale scale;
  std::atomic<uint32_t> string_id{0};

  constexpr Function(const char* s, Role r, collectives::Kind k, Scale x)
      : symbol(s), role(r), kind(k), scale(x) {}

  uint32_t name() {
    uint32_t id = string_id.load(std::memory_order_relaxed);
    if (!id) string_id.store(id = spool::intern(symbol), std::memory_order_relaxed);
    return id;
  }
};

// What a call's arguments say, told apart by their types.
struct Arguments {
  const Communicator* communicator = nullptr;
  CUstream stream = nullptr;
  uint64_t count = 0;
  int type = 0;
  int rank = -1;  // root or peer
};
inline void read(Arguments& a, Communicator* c) { a.communicator = c; }
inline void read(Arguments& a, CUstream s) { a.stream = s; }
inline void read(Arguments& a, size_t count) { a.count = count; }
inline void read(Arguments& a, DataType type) { a.type = static_cast<int>(type); }
inline void read(Arguments& a, int rank) { a.rank = rank; }
template <class T>
void read(Arguments&, T) {}

class Around {
 public:
  // Before the call. `row`: which function it is among all.
  Around(Function& function, uint64_t row, CountRanks count_ranks, const Arguments& arguments);
  // After it.
  void finish(Result result);

 private:
  void begin_operation(uint64_t row, CountRanks count_ranks);
  void end_operation(Result result);

  Function& function_;
  const Arguments arguments_;
  const bool active_;
  Record record_{};
};

}  // namespace nccl
}  // namespace cctrace

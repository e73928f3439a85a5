#include "nccl_around.h"

#include "clock.h"
#include "graphs.h"
#include "hook.h"
#include "nccl_calls.h"
#include "recorder.h"

namespace cctrace {
namespace nccl {
namespace {

constexpr uint32_t kMaxRanksInRecord = 0xffff;

// Bytes of one element, in the order of ncclDataType_t: int8 uint8 int32 uint32 int64 uint64 float16 float32
// float64 bfloat16 float8e4m3 float8e5m2.
uint64_t element_bytes(int type) {
  constexpr uint8_t kBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return type >= 0 && type < static_cast<int>(sizeof kBytes) ? kBytes[type] : 1;
}

// NCCL calls some of its own functions through the same imports as everybody else.
thread_local bool t_inside = false;

}  // namespace

Around::Around(Function& function, uint64_t row, CountRanks count_ranks, const Arguments& arguments)
    : function_(function), arguments_(arguments), active_(!t_inside && recorder::start()) {
  if (!active_) return;
  t_inside = true;
  switch (function_.role) {
    case Role::operation:
    case Role::send_or_receive:
      begin_operation(row, count_ranks);
      break;
    case Role::group_end:
      if (in_outermost_group()) launching();
      break;
    case Role::communicator_gone:
      forget(arguments_.communicator);
      break;
    case Role::group_start:
      break;
  }
}

void Around::finish(Result result) {
  if (!active_) return;
  switch (function_.role) {
    case Role::operation:
    case Role::send_or_receive:
      end_operation(result);
      break;
    case Role::group_start:
      if (result == Result::success) group_started();
      break;
    case Role::group_end:
      if (in_outermost_group()) launched();
      group_ended();
      break;
    case Role::communicator_gone:
      break;
  }
  t_inside = false;
}

void Around::begin_operation(uint64_t row, CountRanks count_ranks) {
  const Membership member = next_call(arguments_.communicator, count_ranks);
  const uint64_t times = function_.scale == Scale::each && member.ranks ? member.ranks : 1;
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(arguments_.count, element_bytes(arguments_.type) * times, &bytes)) bytes = 0;
  const bool between_two = function_.role == Role::send_or_receive;
  Enqueued one{};
  one.stream = arguments_.stream;
  one.communicator = bits(arguments_.communicator);
  one.operations = row + 1;
  one.bytes = bytes;
  one.kind = function_.kind;
  one.ranks = member.ranks;
  one.peers = between_two ? 1 : member.ranks > 1 ? member.ranks - 1 : 0;
  one.peer = between_two ? arguments_.rank : -1;
  enqueue(one);
  if (!in_group()) launching();

  record_.kind = Kind::collective;
  record_.flags = graphs::captures_active() && graphs::is_capturing(arguments_.stream) ? kCaptured : 0;
  record_.operation = static_cast<Operation>(arguments_.type);
  record_.tid = recorder::thread_id();
  record_.stream = stream_key(bits(arguments_.stream), false);
  record_.bytes = bytes;
  record_.object = bits(arguments_.communicator);
  record_.link = member.sequence;
  record_.device = current_device();
  const uint32_t ranks = member.ranks < kMaxRanksInRecord ? member.ranks : kMaxRanksInRecord;
  record_.memory = static_cast<uint8_t>(ranks);
  record_.copy_kind = static_cast<uint8_t>(ranks >> 8);
  record_.start_ns = monotonic_ns();
}

void Around::end_operation(Result result) {
  record_.end_ns = monotonic_ns();
  if (!in_group()) launched();
  if (!recorder::recording()) return;
  record_.name = function_.name();
  record_.result = static_cast<int32_t>(result);
  recorder::push(record_);
}

}  // namespace nccl
}  // namespace cctrace

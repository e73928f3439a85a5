#include "cupti_records.h"

#include <stdlib.h>

#include "spool.h"

namespace cctrace {
namespace cupti {
namespace {

uint8_t memory_of(uint32_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE:
      return kPageable;
    case CUPTI_ACTIVITY_MEMORY_KIND_PINNED:
      return kPinned;
    case CUPTI_ACTIVITY_MEMORY_KIND_DEVICE:
    case CUPTI_ACTIVITY_MEMORY_KIND_DEVICE_STATIC:
      return kDevice;
    case CUPTI_ACTIVITY_MEMORY_KIND_ARRAY:
      return kArray;
    case CUPTI_ACTIVITY_MEMORY_KIND_MANAGED:
    case CUPTI_ACTIVITY_MEMORY_KIND_MANAGED_STATIC:
      return kManaged;
    default:
      return kMemUnknown;
  }
}

uint8_t copy_kind_of(uint32_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOA:
      return kH2D;
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOH:
      return kD2H;
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD:
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOA:
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOD:
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOA:
      return kD2D;
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOH:
      return kH2H;
    case CUPTI_ACTIVITY_MEMCPY_KIND_PTOP:
      return kP2P;
    default:
      return kOtherCopy;
  }
}

Operation sync_operation(CUpti_ActivitySynchronizationType type) {
  switch (type) {
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE:
      return Operation::event_sync;
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT:
      return Operation::stream_wait;
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE:
      return Operation::stream_sync;
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE:
      return Operation::context_sync;
    default:
      return Operation::unknown;
  }
}

const char* overhead_name(uint32_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_OVERHEAD_DRIVER_COMPILER:
      return "driver compiler";
    case CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH:
      return "CUPTI buffer flush";
    case CUPTI_ACTIVITY_OVERHEAD_CUPTI_INSTRUMENTATION:
      return "CUPTI instrumentation";
    case CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE:
      return "CUPTI resource";
    case CUPTI_ACTIVITY_OVERHEAD_RUNTIME_TRIGGERED_MODULE_LOADING:
      return "module loading";
    case CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING:
      return "lazy function loading";
    case CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL:
      return "command buffer full";
    case CUPTI_ACTIVITY_OVERHEAD_ACTIVITY_BUFFER_REQUEST:
      return "CUPTI buffer request";
    case CUPTI_ACTIVITY_OVERHEAD_UVM_ACTIVITY_INIT:
      return "CUPTI unified memory start";
    default:
      return "other overhead";
  }
}

const char* rotation_name(CUpti_ConfidentialComputeRotationEventType type) {
  switch (type) {
    case CUPTI_CONFIDENTIAL_COMPUTE_KEY_ROTATION_CHANNEL_BLOCKED:
      return "channel blocked";
    case CUPTI_CONFIDENTIAL_COMPUTE_KEY_ROTATION_CHANNEL_DRAINED:
      return "channel drained";
    case CUPTI_CONFIDENTIAL_COMPUTE_KEY_ROTATION_CHANNEL_UNBLOCKED:
      return "channel unblocked";
    default:
      return "other rotation event";
  }
}

Outcome timed(uint64_t start, uint64_t end, Record* out) {
  out->start_ns = start;
  out->end_ns = end;
  if (!start) return Outcome::untimed;
  return end ? Outcome::kept : Outcome::unfinished;
}

// Fields that every activity on a stream has, whatever its structure is called.
template <class T>
Outcome on_stream(const T& activity, Kind kind, Record* out) {
  out->kind = kind;
  out->device = static_cast<uint16_t>(activity.deviceId);
  out->stream = activity.streamId;
  out->link = activity.correlationId;
  out->tid = activity.graphId;
  return timed(activity.start, activity.end, out);
}

template <class T>
Outcome copy(const T& activity, Record* out) {
  const Outcome outcome = on_stream(activity, Kind::copy, out);
  out->object = activity.graphNodeId;
  out->bytes = activity.bytes;
  out->copy_kind = copy_kind_of(activity.copyKind);
  out->memory = static_cast<uint8_t>(memory_of(activity.srcKind) | memory_of(activity.dstKind) << 4);
  if (activity.flags & CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC) out->flags |= kAsync;
  return outcome;
}

Outcome kernel(const CUpti_ActivityKernel10& activity, Record* out) {
  const Outcome outcome = on_stream(activity, Kind::kernel, out);
  out->object = activity.graphNodeId;
  if (outcome == Outcome::kept) out->name = spool::intern(activity.name);
  return outcome;
}

Outcome memset(const CUpti_ActivityMemset4& activity, Record* out) {
  const Outcome outcome = on_stream(activity, Kind::memset, out);
  out->object = activity.graphNodeId;
  out->bytes = activity.bytes;
  out->memory = static_cast<uint8_t>(memory_of(activity.memoryKind) << 4);
  if (activity.flags & CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC) out->flags |= kAsync;
  return outcome;
}

Outcome sync(const CUpti_ActivitySynchronization2& activity, Record* out) {
  out->kind = Kind::sync;
  out->operation = sync_operation(activity.type);
  out->stream = activity.streamId;
  out->link = activity.correlationId;
  out->result = static_cast<int32_t>(activity.returnValue);
  return timed(activity.start, activity.end, out);
}

Outcome overhead(const CUpti_ActivityOverhead3& activity, Record* out) {
  out->kind = Kind::overhead;
  if (activity.objectKind == CUPTI_ACTIVITY_OBJECT_THREAD) out->tid = activity.objectId.pt.threadId;
  out->link = activity.correlationId;
  out->name = spool::intern(overhead_name(activity.overheadKind));
  // The receiver owns this one, and only in this case.
  if (activity.overheadKind == CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL) free(activity.overheadData);
  return timed(activity.start, activity.end, out);
}

Outcome rotation(const CUpti_ActivityConfidentialComputeRotation& activity, Record* out) {
  out->kind = Kind::rotation;
  out->device = static_cast<uint16_t>(activity.deviceId);
  out->object = activity.channelId;
  out->name = spool::intern(rotation_name(activity.eventType));
  return timed(activity.timestamp, activity.timestamp, out);
}

Outcome host_call(const CUpti_ActivityAPI& activity, ApiName api_name, Record* out) {
  const char* name = api_name(activity.kind == CUPTI_ACTIVITY_KIND_DRIVER, activity.cbid);
  if (!name) return Outcome::unwanted;
  out->kind = Kind::host_call;
  out->tid = activity.threadId;
  out->link = activity.correlationId;
  out->result = static_cast<int32_t>(activity.returnValue);
  out->name = spool::intern(name);
  return timed(activity.start, activity.end, out);
}

}  // namespace

// The structures are those of CUPTI 13.0; every field read here has the same offset from 12.9 to 13.5,
// records only grow.
Outcome convert(const CUpti_Activity* activity, ApiName api_name, Record* out) {
  *out = Record{};
  out->device = kNoDevice;
  switch (activity->kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return kernel(*reinterpret_cast<const CUpti_ActivityKernel10*>(activity), out);
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
      return on_stream(*reinterpret_cast<const CUpti_ActivityGraphTrace2*>(activity), Kind::graph, out);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return copy(*reinterpret_cast<const CUpti_ActivityMemcpy6*>(activity), out);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return copy(*reinterpret_cast<const CUpti_ActivityMemcpyPtoP4*>(activity), out);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return memset(*reinterpret_cast<const CUpti_ActivityMemset4*>(activity), out);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return sync(*reinterpret_cast<const CUpti_ActivitySynchronization2*>(activity), out);
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      return overhead(*reinterpret_cast<const CUpti_ActivityOverhead3*>(activity), out);
    case CUPTI_ACTIVITY_KIND_CONFIDENTIAL_COMPUTE_ROTATION:
      return rotation(*reinterpret_cast<const CUpti_ActivityConfidentialComputeRotation*>(activity), out);
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return host_call(*reinterpret_cast<const CUpti_ActivityAPI*>(activity), api_name, out);
    default:
      return Outcome::unwanted;
  }
}

}  // namespace cupti
}  // namespace cctrace

// Building graphs by hand, as far as the collector or the tests do it.
#include <cuda.h>

#include <algorithm>

#include "state.h"

#undef cuGraphAddKernelNode

using namespace mock;

namespace {

struct Lock {
  std::lock_guard<std::recursive_mutex> guard{state().mutex};
};

Node* add(CUgraph graph, CUgraphNodeType type, const CUgraphNode* after, size_t count) {
  std::set<Node*> nodes;
  for (size_t i = 0; i < count; i++) nodes.insert(as<Node*>(after[i]));
  return as<Graph*>(graph)->add(type, nodes);
}

template <class Keep>
CUresult list(CUgraph graph, CUgraphNode* out, size_t* count, Keep keep) {
  Lock lock;
  size_t n = 0;
  for (Node* node : as<Graph*>(graph)->nodes) {
    if (!keep(node)) continue;
    if (out && n < *count) out[n] = as<CUgraphNode>(node);
    n++;
  }
  *count = out && n > *count ? *count : n;
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuGraphCreate(CUgraph* out, unsigned) {
  *out = as<CUgraph>(new Graph);
  return CUDA_SUCCESS;
}
CUresult cuGraphAddKernelNode_v2(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                                 const CUDA_KERNEL_NODE_PARAMS* p) {
  Lock lock;
  Node* node = add(graph, CU_GRAPH_NODE_TYPE_KERNEL, after, count);
  node->function = as<Function*>(p->func ? p->func : reinterpret_cast<CUfunction>(p->kern));
  node->parameters = copy_parameters(node->function, p->kernelParams);
  *out = as<CUgraphNode>(node);
  return CUDA_SUCCESS;
}
CUresult cuGraphAddChildGraphNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                                  CUgraph child) {
  Lock lock;
  Node* node = add(graph, CU_GRAPH_NODE_TYPE_GRAPH, after, count);
  node->child = copy_graph(*as<Graph*>(child));
  *out = as<CUgraphNode>(node);
  return CUDA_SUCCESS;
}
CUresult cuGraphAddEmptyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count) {
  Lock lock;
  *out = as<CUgraphNode>(add(graph, CU_GRAPH_NODE_TYPE_EMPTY, after, count));
  return CUDA_SUCCESS;
}
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* out, size_t* count) {
  return list(graph, out, count, [](Node*) { return true; });
}
CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode* out, size_t* count) {
  return list(graph, out, count, [](Node* node) { return node->after.empty(); });
}
CUresult cuGraphDestroyNode(CUgraphNode node) {
  Lock lock;
  std::vector<Node*>& nodes = as<Node*>(node)->owner->nodes;
  nodes.erase(std::find(nodes.begin(), nodes.end(), as<Node*>(node)));
  for (Node* other : nodes) other->after.erase(as<Node*>(node));
  return CUDA_SUCCESS;
}
CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  *type = as<Node*>(node)->type;
  return CUDA_SUCCESS;
}

}  // extern "C"

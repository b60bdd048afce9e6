// Graphs: what a capture has recorded, done again and again.
#include "tests/fake_cuda/fake.hpp"

namespace tutti::fake {

Error cuGraphInstantiateWithFlags(GraphExec* exec, Graph graph, unsigned long long flags) {
  TUTTI_FAKE_ENTER(cuGraphInstantiateWithFlags);
  if (graph == nullptr || flags != 0) return kErrorInvalidValue;
  *exec = new CUgraphExec_st{std::make_shared<CUgraph_st>(*graph)};
  return kSuccess;
}
Error cuGraphLaunch(GraphExec exec, Stream stream) {
  TUTTI_FAKE_ENTER(cuGraphLaunch);
  if (exec == nullptr) return kErrorInvalidValue;
  return enqueue(stream, [graph = exec->graph] {
    for (const Work& work : graph->work) work();
  });
}
Error cuGraphExecDestroy(GraphExec exec) {
  TUTTI_FAKE_ENTER(cuGraphExecDestroy);
  if (exec == nullptr) return kErrorInvalidValue;
  delete exec;
  return kSuccess;
}
Error cuGraphDestroy(Graph graph) {
  TUTTI_FAKE_ENTER(cuGraphDestroy);
  if (graph == nullptr) return kErrorInvalidValue;
  delete graph;
  return kSuccess;
}

}  // namespace tutti::fake

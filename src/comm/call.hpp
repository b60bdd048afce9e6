// One call of the API, as data: what a group collects and a stream carries.
#pragma once

#include <memory>
#include <vector>

#include "src/base/types.hpp"

namespace tutti {

enum class CallKind : uint8_t { Collective, Send, Recv };

/// Counts and displacements of a v form, by rank, in elements.  `receives` is empty where only one side matters.
struct Counts {
  std::vector<size_t> sendCounts, sendDispls;
  std::vector<size_t> recvCounts, recvDispls;
  bool operator==(const Counts&) const = default;
};

struct CustomOperator;

struct Call {
  CallKind kind = CallKind::Collective;
  Collective collective = Collective::AllReduce;
  const void* sendbuff = nullptr;
  void* recvbuff = nullptr;
  size_t count = 0;  // as in tutti.h; v forms: 0
  tuttiDataType_t dtype = tuttiFloat32;
  tuttiRedOp_t op = tuttiSum;
  int root = 0;                                  // of a collective; the peer of Send and Recv
  std::shared_ptr<const Counts> counts;          // v forms only
  std::shared_ptr<const CustomOperator> custom;  // of op, where that is a made one; kept until the call is done
};

/// "AllReduce", "Send", "AllToAllv": the name of the API function without its prefix.
std::string callName(const Call& call);
bool callReduces(const Call& call);
bool callIsRooted(const Call& call);

}  // namespace tutti

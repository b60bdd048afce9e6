// Ranks as threads, each with a Session of its own that listens on the loopback interface.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "src/control/session/session.hpp"
#include "src/control/session/unique_id.hpp"

namespace tutti::test {

/// Run f(rank) on n threads; the complaints that are not empty, one a line.
inline std::string onRanks(int n, const std::function<std::string(int)>& f) {
  std::vector<std::string> complaints(static_cast<size_t>(n));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank) {
    threads.emplace_back([&, rank] { complaints[static_cast<size_t>(rank)] = f(rank); });
  }
  for (std::thread& thread : threads) thread.join();
  std::string all;
  for (int rank = 0; rank < n; ++rank) {
    const std::string& complaint = complaints[static_cast<size_t>(rank)];
    if (!complaint.empty()) all += cat("rank ", rank, ": ", complaint, "\n");
  }
  return all;
}

inline std::shared_ptr<Session> loopbackSession(const char* address = "127.0.0.1:1") {
  SocketAddress any = *parseAddress(address);
  any.setPort(0);
  return *Session::create({any});
}

/// A rendezvous on a Session of its own.
struct Rendezvous {
  std::shared_ptr<Session> session = loopbackSession();
  CommId commId{};
  Secret secret = {2, 2, 2};

  enum class Opens { Now, Later };
  explicit Rendezvous(Opens opens = Opens::Now) {
    commId.fill(1);
    if (opens == Opens::Now) open();
  }
  void open() const { session->serveRendezvous(commId, secret, "place"); }
  JoinRequest request(int rank, int nRanks) const {
    JoinRequest r;
    r.commId = commId;
    r.secret = secret;
    r.rank = rank;
    r.nRanks = nRanks;
    r.rendezvous = session->controlAddress();
    r.info = cat("rank ", rank);
    return r;
  }
  Result<std::unique_ptr<Control>> join(int rank, int nRanks, int timeoutMs = 20'000,
                                        const std::atomic<uint32_t>* abort = nullptr) const {
    return loopbackSession()->join(request(rank, nRanks), Deadline::inMs(timeoutMs), abort, [](const Failure&) {});
  }
};

}  // namespace tutti::test

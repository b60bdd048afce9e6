// An endpoint of the seeded world whose messages are bytes of a tcp::ResumableStream, over connections that break by
// chance and are made again, as transport/tcp/resumable_socket.cpp makes them: what was under way is lost, in the
// middle of records, each end notices at a time of its own, either may be first to open the next connection, and what
// comes by an old one counts for nothing.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/support/sim/link.hpp"
#include "transport/tcp/resumable_stream.hpp"

namespace tutti::sim {

/// Both ends.
class StreamLink : public std::enable_shared_from_this<StreamLink> {
 public:
  StreamLink(std::shared_ptr<Wires> wires, int lane) : wires_(std::move(wires)), lane_(lane) {}

  struct End {
    int rank = 0;
    int node = 0;
    tcp::ResumableStream stream{tcp::kLeastWindowBytes};
    std::string out;     // the newest message, of which the stream has taken
    size_t written = 0;  // so much
    int connection = 0;  // the newest that it knows
    bool up = true;      // it is not known to have broken
    int64_t lastNs = 0;  // when the newest bytes on their way from here arrive
    Status broken;       // for good
    Status closed;       // the peer has closed; what it sent before counts
  };
  End& end(int side) { return ends_[side]; }
  bool hasRoom(int side) const { return ends_[side].written == ends_[side].out.size(); }
  const SimOptions& options() const { return wires_->options; }

  /// Puts on the wire what the end has to say.
  void pump(int side);
  void close(int side);
  /// The connection breaks, and is made again.
  void breakConnection();
  /// Both ends fail for good.
  void breakDown(const char* why);
  uint64_t nBreaks() const { return nBreaks_; }

 private:
  void arrive(int side, int connection, const std::string& bytes);
  void notice(int side, int connection);
  void ask(int side, int connection);
  void asked(int side, int connection);
  void adopt(int side, int connection);
  int64_t someDelay() { return wires_->world.randomBetween(1'000, 1'000'000); }

  const std::shared_ptr<Wires> wires_;
  const int lane_;
  End ends_[2];
  int brokenUpTo_ = -1;  // connections
  uint64_t nBreaks_ = 0;
  bool down_ = false;
};

class StreamEndpoint : public Endpoint {
 public:
  StreamEndpoint(std::shared_ptr<StreamLink> link, int side) : link_(std::move(link)), side_(side) {}
  ~StreamEndpoint() override { link_->close(side_); }

  size_t slotBytes() const override { return link_->options().slotBytes; }
  Result<bool> send(const std::byte* data, size_t bytes, const Fingerprint& call) override;
  Result<std::span<std::byte>> reserve() override;
  Result<bool> commit(size_t bytes, const Fingerprint& call) override { return send(staging_.data(), bytes, call); }
  Result<const std::byte*> peek(const Expect& expect) override;
  void release() override;
  Result<bool> receive(std::byte* dst, const Expect& expect) override;

 private:
  struct Header {
    uint64_t bytes = 0;
    Fingerprint call;
  };
  StreamLink::End& self() { return link_->end(side_); }
  bool pull();

  const std::shared_ptr<StreamLink> link_;
  const int side_;
  std::string in_;  // of the message that is coming
  bool peeked_ = false;
  std::vector<std::byte> staging_;
  Status failure_;
};

}  // namespace tutti::sim

// Senders and receivers of numbered messages, as small state machines that are polled like an executor's ops.
#pragma once

#include <deque>
#include <span>
#include <string>
#include <vector>

#include "tests/conformance/harness.hpp"

namespace tutti::conformance {

enum class How { Send, Reserve, Offer };
enum class Take { Peek, Receive, Parts };

struct Message {
  size_t bytes = 0;
  How how = How::Send;
  Take take = Take::Receive;
  size_t misaligned = 0;  // of both buffers, in bytes
};

/// All sizes around the borders of lines, pages, stripes and slots, up to `most`.
std::vector<size_t> interestingSizes(size_t most);
/// `count` messages by seed: sizes, ways of sending and taking.
std::vector<Message> randomMessages(uint64_t seed, int count, size_t most, size_t mostDirect);

/// The fingerprint of the message with this number.
Fingerprint callNumber(uint32_t number);
/// The content of a message: different for every number and place.
void fillPattern(std::span<std::byte> out, uint64_t seed, uint32_t number);

class Actor {
 public:
  virtual ~Actor() = default;
  /// Try to go on.  True if something happened.  Errors are the endpoint's; a wrong byte is InternalError.
  virtual Result<bool> step() = 0;
  virtual bool done() const = 0;
  virtual Endpoint& endpoint() = 0;
};

class Sender : public Actor {
 public:
  Sender(Endpoint& endpoint, std::vector<Message> messages, uint64_t seed, uint32_t firstNumber = 0)
      : endpoint_(endpoint), messages_(std::move(messages)), seed_(seed), first_(firstNumber) {}
  Result<bool> step() override;
  bool done() const override { return next_ == messages_.size() && offered_.empty(); }
  Endpoint& endpoint() override { return endpoint_; }

 private:
  struct Offered {
    Request request;
    std::vector<std::byte> memory;
  };
  Result<bool> stepOffers();
  Result<bool> stepReserved(const Message& message);
  uint32_t number() const { return first_ + static_cast<uint32_t>(next_); }
  void sent();

  Endpoint& endpoint_;
  std::vector<Message> messages_;
  uint64_t seed_;
  uint32_t first_;
  size_t next_ = 0;
  bool begun_ = false;  // memory_ is filled, or reserved memory is
  std::vector<std::byte> memory_;
  std::deque<Offered> offered_;
};

class Receiver : public Actor {
 public:
  Receiver(Endpoint& endpoint, std::vector<Message> messages, uint64_t seed, uint32_t firstNumber = 0)
      : endpoint_(endpoint), messages_(std::move(messages)), seed_(seed), first_(firstNumber) {}
  Result<bool> step() override;
  bool done() const override { return next_ == messages_.size(); }
  Endpoint& endpoint() override { return endpoint_; }

 private:
  Result<bool> take(const Message& message, const Expect& expect);
  Result<bool> takeParts(std::byte* to, const Expect& expect);

  Endpoint& endpoint_;
  std::vector<Message> messages_;
  uint64_t seed_;
  uint32_t first_;
  size_t next_ = 0;
  std::vector<std::byte> memory_;
  size_t came_ = 0;  // bytes of a message that is taken in parts
};

/// Poll all actors and both transports on this thread until all are done.  "" or what went wrong.
std::string drive(Harness& harness, std::span<Actor* const> actors);
/// One rank's actor, and its transport, on the calling thread.
std::string driveAlone(Harness& harness, int rank, Actor& actor);

}  // namespace tutti::conformance

// The messages between two ranks of an overlay, over one connection after another: a machine without I/O of its own.
//
// Messages are numbered by counting, and kept until the peer has said that it has them.  Both ends begin every
// connection with a Resume, which says how many messages of the peer they have; what the former connection lost is then
// sent again, and nothing is given out twice.  The first connection needs no answer to its Resume: both have nothing.
//
//   Resume     how many messages the sender has; its control address
//   Heartbeat  how many messages the sender has
//   Rest       of a rank that has left: the number of the first message that follows
//
// Memory: what the peer has not confirmed.  It does every kConfirmBytes, and with every heartbeat.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "src/control/network.hpp"

namespace tutti {

class ResumableLink {
 public:
  explicit ResumableLink(Network& network) : network_(&network) {}

  /// The connection; 0: none.
  LinkId id() const { return link_; }
  /// Whether what is sent goes out at once.
  bool flows() const { return flows_; }
  /// Where the peer says that it can be reached; empty: it has not said yet.
  const ControlAddress& peerAddress() const { return peerAddress_; }

  /// Send now or over the next connection.
  void send(const std::string& message);
  /// Say that this end lives, and what it has.
  void beat();

  /// A connection on which the peer begins in the same way; the former one is forgotten.
  void connect(LinkId link, bool first, const ControlAddress& self);
  /// One that the peer only speaks on if it has left.
  void listen(LinkId link);
  void disconnect();

  enum class Came : uint8_t {
    Message,  // for the owner
    Known,    // nothing for the owner
    Nonsense,
  };
  Came onMessage(std::string_view message);

  /// Messages kept, and those that a new connection had to carry again, ever.
  size_t kept() const { return kept_.size(); }
  uint64_t resent() const { return resent_; }
  /// For a peer that asks for a rank which has left: what it may lack, over this link.
  void sendRest(LinkId link) const;

 private:
  void flow();
  bool confirm(uint64_t has);
  Came onResume(std::string_view message);
  Came onRest(std::string_view message);

  Network* network_;
  LinkId link_ = 0;
  bool flows_ = false;
  bool begun_ = false;  // the peer has, on this connection
  ControlAddress peerAddress_;
  std::deque<std::string> kept_;
  uint64_t confirmed_ = 0;  // the number of kept_'s first
  uint64_t sent_ = 0;       // messages below have left once
  uint64_t resent_ = 0;
  uint64_t received_ = 0;
  uint64_t repeats_ = 0;         // messages to come that were here before
  size_t unconfirmedBytes_ = 0;  // that we have and have not said so
};

}  // namespace tutti

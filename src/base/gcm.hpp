// AES-256-GCM (NIST SP 800-38D) by the system's libcrypto, which is looked for at run time: only who asks for
// encryption or keyed tags needs it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "src/base/secret.hpp"
#include "src/base/status.hpp"

namespace tutti {

/// One key, in one direction.  One thread.  Each message: begin, then what is authenticated alone, then what is
/// encrypted, then the end.
class Gcm {
 public:
  static constexpr size_t kTagBytes = 16;
  using Tag = std::array<std::byte, kTagBytes>;
  /// Names a message; with one key never the same twice, but for the very same message.
  struct Nonce {
    uint32_t kind = 0;
    uint64_t number = 0;
  };

  /// Whether libcrypto is there.  Errors: InvalidUsage: what was looked for, and what to install.
  static Status available();
  /// Precondition: available().
  explicit Gcm(const Secret& key);
  ~Gcm();
  Gcm(const Gcm&) = delete;
  Gcm& operator=(const Gcm&) = delete;

  void beginSeal(const Nonce& nonce) { begin(nonce, true); }
  void beginOpen(const Nonce& nonce) { begin(nonce, false); }
  void authenticate(const void* data, size_t bytes);
  /// Encrypts or decrypts; dst may be src.  What is decrypted is not to be believed before end() has been true.
  void transform(void* dst, const void* src, size_t bytes);
  Tag endSeal();
  bool endOpen(const Tag& tag);

 private:
  void begin(const Nonce& nonce, bool seals);
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace tutti

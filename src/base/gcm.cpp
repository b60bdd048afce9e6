#include "src/base/gcm.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <climits>
#include <string>

#include "src/base/assert.hpp"

namespace tutti {
namespace {

// From OpenSSL's evp.h, the same in 1.1 and 3.
constexpr int kGetTag = 0x10, kSetTag = 0x11;
constexpr size_t kNonceBytes = 12;

#define TUTTI_LIBCRYPTO(X)                                                                                \
  X(EVP_CIPHER_CTX_new, void*, ())                                                                        \
  X(EVP_CIPHER_CTX_free, void, (void*))                                                                   \
  X(EVP_CIPHER_CTX_ctrl, int, (void*, int, int, void*))                                                   \
  X(EVP_aes_256_gcm, const void*, ())                                                                     \
  X(EVP_CipherInit_ex, int, (void*, const void*, void*, const unsigned char*, const unsigned char*, int)) \
  X(EVP_CipherUpdate, int, (void*, unsigned char*, int*, const unsigned char*, int))                      \
  X(EVP_CipherFinal_ex, int, (void*, unsigned char*, int*))

struct Library {
#define TUTTI_MEMBER(name, result, arguments) result(*name) arguments = nullptr;
  TUTTI_LIBCRYPTO(TUTTI_MEMBER)
#undef TUTTI_MEMBER
  std::string missing;  // why it cannot be used; empty: it can
};

Library load() {
  Library library;
  void* handle = nullptr;
  for (const char* name : {"libcrypto.so.3", "libcrypto.so.1.1"}) {
    handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) break;
    const char* why = dlerror();
    library.missing += std::string(library.missing.empty() ? "" : "; ") + (why != nullptr ? why : name);
  }
  if (handle == nullptr) return library;
  library.missing.clear();
#define TUTTI_FIND(name, result, arguments)                                   \
  library.name = reinterpret_cast<result(*) arguments>(dlsym(handle, #name)); \
  if (library.name == nullptr) library.missing += " it has no function " #name ";";
  TUTTI_LIBCRYPTO(TUTTI_FIND)
#undef TUTTI_FIND
  return library;
}

const Library& library() {
  static const Library loaded = load();
  return loaded;
}

const unsigned char* bytesOf(const void* data) { return static_cast<const unsigned char*>(data); }

}  // namespace

struct Gcm::Context {
  void* evp = nullptr;
};

Status Gcm::available() {
  const Library& found = library();
  if (found.missing.empty()) return {};
  return invalidUsage(ErrorCode::NoLibrary,
                      "OpenSSL's libcrypto (libcrypto.so.3 or libcrypto.so.1.1) cannot be used: ", found.missing,
                      "; install it (Debian and Ubuntu: libssl3), or put its folder in LD_LIBRARY_PATH");
}

Gcm::Gcm(const Secret& key) : context_(std::make_unique<Context>()) {
  const Library& crypto = library();
  TUTTI_ASSERT(crypto.missing.empty());
  context_->evp = crypto.EVP_CIPHER_CTX_new();
  TUTTI_ASSERT(context_->evp != nullptr);
  const int made = crypto.EVP_CipherInit_ex(context_->evp, crypto.EVP_aes_256_gcm(), nullptr, key.data(), nullptr, 1);
  TUTTI_ASSERT_CMP(made, ==, 1);
}

Gcm::~Gcm() { library().EVP_CIPHER_CTX_free(context_->evp); }  // which wipes the key

void Gcm::begin(const Nonce& nonce, bool seals) {
  std::array<unsigned char, kNonceBytes> bytes;
  for (size_t i = 0; i < 4; ++i) bytes[i] = static_cast<unsigned char>(nonce.kind >> (24 - 8 * i));
  for (size_t i = 0; i < 8; ++i) bytes[4 + i] = static_cast<unsigned char>(nonce.number >> (56 - 8 * i));
  const int begun = library().EVP_CipherInit_ex(context_->evp, nullptr, nullptr, nullptr, bytes.data(), seals ? 1 : 0);
  TUTTI_ASSERT_CMP(begun, ==, 1);
}

void Gcm::authenticate(const void* data, size_t bytes) { transform(nullptr, data, bytes); }

void Gcm::transform(void* dst, const void* src, size_t bytes) {
  auto* out = static_cast<unsigned char*>(dst);
  const unsigned char* in = bytesOf(src);
  for (size_t left = bytes; left > 0;) {
    const int some = static_cast<int>(std::min<size_t>(left, INT_MAX / 2));
    int made = 0;
    const int done = library().EVP_CipherUpdate(context_->evp, out, &made, in, some);
    TUTTI_ASSERT_CMP(done, ==, 1);
    if (out != nullptr) out += some;
    in += some;
    left -= static_cast<size_t>(some);
  }
}

Gcm::Tag Gcm::endSeal() {
  Tag tag;
  int made = 0;
  unsigned char none[16];
  const bool done = library().EVP_CipherFinal_ex(context_->evp, none, &made) == 1 &&
                    library().EVP_CIPHER_CTX_ctrl(context_->evp, kGetTag, kTagBytes, tag.data()) == 1;
  TUTTI_ASSERT(done);
  return tag;
}

bool Gcm::endOpen(const Tag& tag) {
  Tag expected = tag;  // which is only read
  int made = 0;
  unsigned char none[16];
  return library().EVP_CIPHER_CTX_ctrl(context_->evp, kSetTag, kTagBytes, expected.data()) == 1 &&
         library().EVP_CipherFinal_ex(context_->evp, none, &made) == 1;
}

}  // namespace tutti

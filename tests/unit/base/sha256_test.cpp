// SHA-256 against the examples of FIPS 180-4 and NIST's, HMAC against RFC 4231.
#include <catch2/catch.hpp>

#include "src/base/sha256.hpp"
#include "src/base/text.hpp"

using namespace tutti;

namespace {

std::string hex(const Digest& digest) { return toHex(digest.data(), digest.size()); }

}  // namespace

TEST_CASE("SHA-256 agrees with the published examples") {
  struct Row {
    std::string text;
    const char* digest;
  };
  const Row rows[] = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrst"
       "u",
       "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
      {std::string(1'000'000, 'a'), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"}};
  for (const Row& row : rows) {
    CAPTURE(row.text.size());
    CHECK(hex(Sha256().add(row.text).finish()) == row.digest);
  }
}

// As Python's hashlib has it.
TEST_CASE("SHA-256 of every length up to three blocks is right") {
  Sha256 all;
  for (size_t length = 0; length < 200; ++length) {
    const Digest digest = Sha256().add(std::string(length, 'a')).finish();
    all.add({reinterpret_cast<const char*>(digest.data()), digest.size()});
  }
  CHECK(hex(all.finish()) == "752c007f38611cfbf5fa42cb1cea3d8e086491c844d0cc4defd632cb81423506");
}

TEST_CASE("SHA-256 of parts is that of the whole, wherever it is cut") {
  std::string text;
  for (int i = 0; i < 200; ++i) text.push_back(static_cast<char>(i * 7));
  const std::string_view whole = text;
  for (size_t length :
       {size_t{55}, size_t{56}, size_t{63}, size_t{64}, size_t{65}, size_t{119}, size_t{128}, size_t{200}}) {
    const Digest expected = Sha256().add(whole.substr(0, length)).finish();
    for (size_t cut = 0; cut <= length; ++cut) {
      const Digest got = Sha256().add(whole.substr(0, cut)).add(whole.substr(cut, length - cut)).finish();
      if (got != expected) FAIL(length << " bytes cut at " << cut);
    }
  }
  CHECK(Sha256().add(whole.substr(0, 55)).finish() != Sha256().add(whole.substr(0, 56)).finish());
}

TEST_CASE("HMAC-SHA256 agrees with RFC 4231") {
  struct Row {
    std::string key, data;
    const char* mac;
  };
  const std::string counted =
      "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19";
  const Row rows[] = {
      {std::string(20, '\x0b'), "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
      {"Jefe", "what do ya want for nothing?", "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
      {std::string(20, '\xaa'), std::string(50, '\xdd'),
       "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
      {counted, std::string(50, '\xcd'), "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"},
      {std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First",
       "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
      {std::string(131, '\xaa'),
       "This is a test using a larger than block-size key and a larger than block-size data. The key needs to be "
       "hashed "
       "before being used by the HMAC algorithm.",
       "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"}};
  for (const Row& row : rows) {
    CAPTURE(row.data);
    CHECK(hex(hmacSha256(row.key, row.data)) == row.mac);
  }
}

TEST_CASE("digests are the same only if every byte is") {
  const Digest digest = Sha256().add("abc").finish();
  CHECK(sameDigest(digest, digest));
  for (size_t i = 0; i < digest.size(); ++i) {
    Digest other = digest;
    other[i] ^= 0x80;
    if (sameDigest(digest, other)) FAIL("byte " << i << " does not count");
  }
}

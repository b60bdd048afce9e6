// HKDF against RFC 5869, AES-256-GCM against the examples of its specification, and what a changed bit does.
#include <catch2/catch.hpp>
#include <cstring>

#include "src/base/gcm.hpp"
#include "src/base/hkdf.hpp"
#include "src/base/text.hpp"

using namespace tutti;

namespace {

std::string bytes(const std::string& hex) {
  std::vector<unsigned char> raw;
  REQUIRE(fromHex(hex, &raw));
  return {raw.begin(), raw.end()};
}

std::string counted(int first, int n) {
  std::string text;
  for (int i = 0; i < n; ++i) text.push_back(static_cast<char>(first + i));
  return text;
}

}  // namespace

TEST_CASE("HKDF agrees with RFC 5869") {
  struct Row {
    std::string key, salt, info, out;
  };
  const Row rows[] = {{std::string(22, '\x0b'), counted(0, 13), counted(0xf0, 10),
                       "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"},
                      {counted(0x00, 80), counted(0x60, 80), counted(0xb0, 80),
                       "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e0"
                       "9da3275600c2f09b8"
                       "367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87"},
                      {std::string(22, '\x0b'), "", "",
                       "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"}};
  for (const Row& row : rows) {
    std::vector<unsigned char> out(row.out.size() / 2);
    hkdfSha256(row.key, row.salt, row.info, out);
    CHECK(toHex(out.data(), out.size()) == row.out);
  }
}

TEST_CASE("AES-256-GCM agrees with published examples, whole and in parts") {
  if (!Gcm::available().ok()) {
    WARN(Gcm::available().message());
    return;
  }
  // Test case 13 and 14 of McGrew and Viega, "The Galois/Counter Mode of Operation": keys and nonces of zeros.
  Gcm gcm({0});
  gcm.beginSeal({});
  const Gcm::Tag empty = gcm.endSeal();
  CHECK(toHex(empty.data(), empty.size()) == "530f8afbc74536b9a963b4f1c4cb738b");
  std::string text(16, '\0');
  gcm.beginSeal({});
  for (size_t at = 0; at < text.size(); at += 4) gcm.transform(text.data() + at, text.data() + at, 4);
  const Gcm::Tag tag = gcm.endSeal();
  CHECK(text == bytes("cea7403d4d606b6e074ec5d3baf39d18"));
  CHECK(toHex(tag.data(), tag.size()) == "d0d1c8a799996bf0265b98b5d48ab919");
}

TEST_CASE("what was sealed opens with its key and nonce alone, and unchanged") {
  if (!Gcm::available().ok()) return;
  const Secret key = Secret::random();
  const std::string said = "head", text = "a record of some length";
  const auto seal = [&](std::string* out) {
    Gcm gcm(key);
    out->resize(text.size());
    gcm.beginSeal({1, 7});
    gcm.authenticate(said.data(), said.size());
    gcm.transform(out->data(), text.data(), text.size());
    return gcm.endSeal();
  };
  std::string sealed;
  const Gcm::Tag tag = seal(&sealed);
  const auto opens = [&](const Secret& with, Gcm::Nonce nonce, const std::string& head, std::string body,
                         const Gcm::Tag& given) {
    Gcm gcm(with);
    gcm.beginOpen(nonce);
    gcm.authenticate(head.data(), head.size());
    gcm.transform(body.data(), body.data(), body.size());
    return gcm.endOpen(given) && body == text;
  };
  CHECK(opens(key, {1, 7}, said, sealed, tag));
  CHECK_FALSE(opens(Secret::random(), {1, 7}, said, sealed, tag));
  CHECK_FALSE(opens(key, {1, 8}, said, sealed, tag));
  CHECK_FALSE(opens(key, {0, 7}, said, sealed, tag));
  CHECK_FALSE(opens(key, {1, 7}, "hEad", sealed, tag));
  for (size_t bit = 0; bit < sealed.size() * 8; ++bit) {
    std::string changed = sealed;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    CHECK_FALSE(opens(key, {1, 7}, said, changed, tag));
  }
  for (size_t bit = 0; bit < tag.size() * 8; ++bit) {
    Gcm::Tag changed = tag;
    changed[bit / 8] ^= std::byte{1} << (bit % 8);
    CHECK_FALSE(opens(key, {1, 7}, said, sealed, changed));
  }
}

// Plans of MSCCL that cannot work in place.
#pragma once

#include <string>

#include "src/base/text.hpp"

namespace tutti::test {

/// One step of MSCCL's XML: step(0, "s", "i", 0, "o", 0).
inline std::string step(int s, const char* type, const char* src, int srcOff, const char* dst, int dstOff,
                        int count = 1, int depId = -1, int depStep = -1, bool awaited = false) {
  return cat("<step s=\"", s, "\" type=\"", type, "\" srcbuf=\"", src, "\" srcoff=\"", srcOff, "\" dstbuf=\"", dst,
             "\" dstoff=\"", dstOff, "\" cnt=\"", count, "\" depid=\"", depId, "\" deps=\"", depStep, "\" hasdep=\"",
             awaited ? 1 : 0, "\"/>\n");
}

/// AllReduce out of place: every rank sends every other its vector, of two chunks, on the channel of the receiver.  In
/// place a rank would overwrite on its own channel what it still has to send on others.
inline std::string shoutXml(int n) {
  std::string text = cat("<algo name=\"shout\" nchunksperloop=\"2\" ngpus=\"", n,
                         "\" coll=\"allreduce\" inplace=\"0\" outofplace=\"1\">\n");
  for (int r = 0; r < n; ++r) {
    text += cat("<gpu id=\"", r, "\" i_chunks=\"2\" o_chunks=\"2\" s_chunks=\"0\">\n");
    int tb = 0;
    for (int to = 0; to < n; ++to) {
      if (to == r) continue;
      text += cat("<tb id=\"", tb++, "\" send=\"", to, "\" recv=\"-1\" chan=\"", to, "\">\n",
                  step(0, "s", "i", 0, "i", 0, 2), "</tb>\n");
    }
    for (int i = 1; i < n; ++i) {
      text += cat("<tb id=\"", tb, "\" send=\"-1\" recv=\"", (r + i) % n, "\" chan=\"", r, "\">\n",
                  step(0, "rrc", i == 1 ? "i" : "o", 0, "o", 0, 2, i == 1 ? -1 : tb - 1, i == 1 ? -1 : 0, i < n - 1),
                  "</tb>\n");
      ++tb;
    }
    text += "</gpu>\n";
  }
  return text + "</algo>\n";
}

/// AllToAll out of place, upwards on one channel and downwards on another: in place each would overwrite what the other
/// has to send.
inline std::string crossXml(int n) {
  std::string text = cat("<algo name=\"cross\" nchunksperloop=\"", n, "\" ngpus=\"", n,
                         "\" coll=\"alltoall\" inplace=\"0\" outofplace=\"1\">\n");
  for (int r = 0; r < n; ++r) {
    text += cat("<gpu id=\"", r, "\" i_chunks=\"", n, "\" o_chunks=\"", n, "\" s_chunks=\"0\">\n<copy i_off=\"", r,
                "\" o_off=\"", r, "\"/>\n");
    int tb = 0;
    for (int peer = 0; peer < n; ++peer) {
      if (peer == r) continue;
      text += cat("<tb id=\"", tb++, "\" send=\"", peer, "\" recv=\"-1\" chan=\"", peer > r ? 0 : 1, "\">\n",
                  step(0, "s", "i", peer, "o", r), "</tb>\n");
      text += cat("<tb id=\"", tb++, "\" send=\"-1\" recv=\"", peer, "\" chan=\"", peer > r ? 1 : 0, "\">\n",
                  step(0, "r", "i", r, "o", peer), "</tb>\n");
    }
    text += "</gpu>\n";
  }
  return text + "</algo>\n";
}

}  // namespace tutti::test

#include "transport/self/entry.hpp"

#include "transport/self/self_transport.hpp"

namespace tutti {

constinit const TransportEntry kSelfEntry = {
    .name = "self",
    .links = {},
    .create = [](const TransportContext& context) -> Result<std::unique_ptr<Transport>> {
      return createSelfTransport(context.self.rank, context.sliceBytes);
    },
};

}  // namespace tutti

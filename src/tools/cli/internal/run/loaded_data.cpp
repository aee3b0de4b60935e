#include "tools/cli/internal/run/loaded_data.h"

namespace tessera {

std::shared_ptr<const RunData> load_data_of(RunConfig& config) {
  auto data =
      std::make_shared<const RunData>(load_data(config.data, {.context = config.model.context}));
  set_sizes(config.model, *data);
  return data;
}

}  // namespace tessera

// The data of a configuration.
#pragma once

#include <memory>

#include "training/config/config.h"
#include "training/engine/run_data.h"

namespace tessera {

/// The data of a configuration. It also sets the sizes of the configuration's model.
std::shared_ptr<const RunData> load_data_of(RunConfig& config);

}  // namespace tessera

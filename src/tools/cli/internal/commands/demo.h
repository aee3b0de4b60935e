// tessera demo: placements do not change results, and the model learns.
#pragma once

#include <cstdint>
#include <optional>

#include "tools/cli/internal/command.h"
#include "tools/cli/internal/shared_options.h"

namespace tessera {

struct DemoCommand : Command {
  void describe(OptionParser& parser) override;
  ExitCode run(Processes&) override;

  OverrideOptions overrides;
  OutputOptions output;
  std::optional<int64_t> steps;
};

}  // namespace tessera

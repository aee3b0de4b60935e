// tessera fuzz: compares random programs under random placements with the serial programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tools/cli/internal/command.h"
#include "tools/cli/internal/shared_options.h"

namespace tessera {

struct FuzzCommand : Command {
  void describe(OptionParser& parser) override;
  ExitCode run(Processes&) override;

  std::string file;  // a file with one case; "": random cases
  std::optional<int64_t> cases;
  uint64_t seed = 1;
  bool planner = false;  // run under plans that are found
  double minutes = 0;    // 0: no limit
  OutputOptions output;
};

}  // namespace tessera

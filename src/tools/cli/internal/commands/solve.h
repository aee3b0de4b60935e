// tessera solve: solves an intra-operator problem in the public contest's format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tools/cli/internal/command.h"
#include "tools/cli/internal/shared_options.h"

namespace tessera {

struct SolveCommand : Command {
  void describe(OptionParser& parser) override;
  ExitCode run(Processes&) override;

  std::string file;
  double time_limit = 60;  // seconds
  std::optional<int64_t> work;
  std::optional<int> threads;
  uint64_t seed = 1;
  OutputOptions output;
};

}  // namespace tessera

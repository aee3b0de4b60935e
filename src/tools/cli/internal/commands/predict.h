// tessera predict: the results of a stored model for data of the user.
#pragma once

#include <string>

#include "tools/cli/internal/command.h"
#include "tools/cli/internal/shared_options.h"

namespace tessera {

struct PredictCommand : Command {
  void describe(OptionParser& parser) override;
  ExitCode run(Processes& processes) override;
  int rank_count() const override;

  CheckpointOptions checkpoint;
  ProcessOptions liveness;
  OutputOptions output;
  std::string data;
  std::string to;
  bool classes = false;
};

}  // namespace tessera

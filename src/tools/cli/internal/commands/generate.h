// tessera generate: the model of a checkpoint continues a text.
#pragma once

#include <cstdint>
#include <string>

#include "tools/cli/internal/command.h"
#include "tools/cli/internal/shared_options.h"
#include "training/engine/text/sampling.h"

namespace tessera {

struct GenerateCommand : Command {
  void describe(OptionParser& parser) override;
  ExitCode run(Processes& processes) override;
  int rank_count() const override;

  CheckpointOptions checkpoint;
  ProcessOptions liveness;
  OutputOptions output;
  std::string prompt;
  int64_t tokens = 100;
  SamplingOptions sampling;
  bool no_cache = false;
};

}  // namespace tessera

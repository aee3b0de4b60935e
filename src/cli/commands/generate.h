// tessera generate: the model of a checkpoint continues a text.
#pragma once

#include <cstdint>
#include <string>

#include "cli/command.h"
#include "cli/shared_options.h"
#include "engine/text/sampling.h"

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

// tessera eval: the validation loss of a checkpoint.
#pragma once

#include "tools/cli/internal/command.h"
#include "tools/cli/internal/shared_options.h"

namespace tessera {

struct EvalCommand : Command {
  void describe(OptionParser& parser) override;
  ExitCode run(Processes& processes) override;
  int rank_count() const override;

  CheckpointOptions checkpoint;
  ProcessOptions liveness;
  OutputOptions output;
};

}  // namespace tessera

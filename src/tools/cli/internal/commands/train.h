// tessera train: trains a model, with a run folder, checkpoints and a trace.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/cli/internal/command.h"
#include "tools/cli/internal/shared_options.h"

namespace tessera {

struct TrainCommand : Command {
  void describe(OptionParser& parser) override;
  ExitCode run(Processes& processes) override;
  int rank_count() const override;

  ConfigOptions config;
  ProcessOptions liveness;
  OutputOptions output;
  PassOptions compilation;
  std::optional<int64_t> steps;
  std::string out;                    // the folder of the run; "": none
  std::optional<std::string> resume;  // a checkpoint; "": the latest in `out`
  std::string base;                   // the checkpoint whose parameters a run begins with; "": none
  std::string trace;                  // the file for a trace; "": none
  std::optional<int64_t> trace_steps;
  bool check_replicas = false;
  bool dry_run = false;
};

/// The command that continues a run from its latest checkpoint, quoted for a shell: the words of
/// the run, with --resume.
///   example  continue_command({"a.toml", "--steps", "9", "--out", "my run"}) =
///            "train a.toml --steps 9 --out 'my run' --resume"
std::string continue_command(const std::vector<std::string>& words);

}  // namespace tessera

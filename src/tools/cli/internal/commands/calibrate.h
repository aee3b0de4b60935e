// tessera calibrate: a cluster file whose constants are fitted to measured runs.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/internal/command.h"
#include "tools/cli/internal/shared_options.h"

namespace tessera {

struct CalibrateCommand : Command {
  void describe(OptionParser& parser) override;
  ExitCode run(Processes&) override;

  std::vector<std::string> runs;     // that are fitted: texts of predictable_run
  std::vector<std::string> checked;  // that are left out of the fit
  std::string cluster = "detect";    // a file or one line
  std::string out;
  int64_t steps = 0;
  int64_t rounds = 3;
  double deviation = 30;             // of a constant, in percent
  std::string runtime = "megatron";  // of tables: the profile that the fit corrects
  OutputOptions output;

 private:
  /// The runs are tables: a profile is fitted to them.
  ExitCode calibrate_runtime();
};

}  // namespace tessera

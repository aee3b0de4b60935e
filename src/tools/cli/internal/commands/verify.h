// tessera verify: compares a plan with the serial program.
#pragma once

#include <cstdint>
#include <optional>

#include "tools/cli/internal/command.h"
#include "tools/cli/internal/shared_options.h"

namespace tessera {

struct VerifyCommand : Command {
  void describe(OptionParser& parser) override;
  ExitCode run(Processes& processes) override;
  int rank_count() const override;

  /// `config` with --layers and --rows among its overrides.
  ConfigOptions with_smaller_case() const;

  ConfigOptions config;
  ProcessOptions liveness;
  OutputOptions output;
  PassOptions compilation;
  std::string dump;  // a folder; "": a plan is compared
  std::optional<int64_t> steps;
  std::optional<int64_t> layers, rows;  // of a smaller case

 private:
  ExitCode verify_step() const;
};

}  // namespace tessera

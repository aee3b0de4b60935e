// tessera plan: the fastest plan for a configuration on a cluster.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/cli/internal/command.h"
#include "tools/cli/internal/run/kept_answers.h"
#include "tools/cli/internal/run/plan_search.h"
#include "tools/cli/internal/run/search_end.h"
#include "tools/cli/internal/run/target_plan.h"
#include "tools/cli/internal/shared_options.h"

namespace tessera {

struct PlanCommand : Command {
  void describe(OptionParser& parser) override;
  ExitCode run(Processes&) override;

  std::string file;  // the configuration
  OverrideOptions overrides;
  OutputOptions output;
  std::vector<std::string> clusters;  // files or lines; none: this machine
  std::vector<std::string> gpus;      // "64xh100", in place of clusters
  std::string batch = {};             // ROWSxCONTEXT; "": as the model says
  std::string runtime;                // a profile; "": the usual one of the devices
  std::optional<int> ranks, max_ranks;
  std::string fixed;    // "tp=2"
  std::string target;   // "torchtitan"; "": our own runtime
  std::string current;  // flags or a file of the target; "": none
  bool compares_free = false;
  std::optional<std::string> memory;
  std::vector<std::string> compared;  // plan files
  std::optional<std::string> out;
  std::optional<std::string> report;     // the file of a page
  std::optional<std::string> explained;  // the name of an op or a value
  double time_limit = 0;                 // seconds; 0: none
  bool no_cache = false;
  bool changes_devices = false;  // --sensitivity
  bool shows_stages = false;     // of the search
  std::optional<int> local_search, measure_top;

 private:
  int rank_limit(const Cluster& machines) const;
  std::vector<Candidate> compared_candidates(const Planned& planned) const;
  EvaluationOptions evaluation() const;  // made when the search begins
  ExitCode print_target(Planned& planned, const std::optional<GivenSetting>& given) const;
  /// The best plans on several clusters.
  ExitCode compare_clusters() const;
  Planned planned_on(const ConfigFile& read, const std::string& line,
                     const std::shared_ptr<const Cluster>& machines) const;
  bool is_kept() const;
  void print_answer(const KeptAnswer& answer) const;
  ExitCode print_plan_search(const Planned& planned) const;

  std::shared_ptr<SearchEnd> end_;
};

}  // namespace tessera

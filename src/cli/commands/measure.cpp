#include "cli/commands/measure.h"

#include "base/file.h"
#include "cli/print/cluster_text.h"
#include "cli/print/progress.h"
#include "cli/run/session.h"
#include "cluster/cluster_file.h"
#include "cluster/detect.h"
#include "measure/machine.h"

namespace tessera {

void MeasureCommand::describe(OptionParser& parser) {
  parser.text({"--out,-o", "FILE", "Write the cluster to this file: TOML, or JSON for .json"}, out);
  parser.flag({"--detect", "",
               "Measure nothing: only what the operating system says, with the rates of a common "
               "machine"},
              detects_only);
  add_options(parser, output);
}

ExitCode MeasureCommand::run(Processes&) {
  if (out) check_can_write(*out);
  const Cluster cluster(detects_only ? detect_machine() : measure_machine());
  if (out) write_cluster(*out, cluster.description());
  print_result(output, cluster_document(cluster),
               cluster_text(cluster) + (out ? "\nwritten to " + *out + "\n" : ""));
  return ExitCode::kDone;
}

}  // namespace tessera

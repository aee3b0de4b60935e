// What a run folder or a checkpoint says of its run: the model, the data, how far it came, the
// plan.
#pragma once

#include <filesystem>
#include <string>

#include "base/files/document.h"

namespace tessera {

struct RunFacts {
  /// {model, data, step, steps, loss, val_loss, best: {checkpoint, step, val_loss}, plan,
  /// schedule}; null: no run. `best` is there where checkpoint.keep_best kept one.
  Document document;
  std::string text;  // a line each; "" without a run
};

/// Of a run folder its config.json, plan.json and the last lines of metrics.jsonl; of a checkpoint
/// its state.json and plan.json. `path` may be the file `latest` of a folder of checkpoints.
///   throws  UserError (78) when plan.json is malformed
RunFacts run_facts(const std::filesystem::path& path);

}  // namespace tessera

#include "compiler/plan/internal/rank_mapping.h"

#include <set>

#include "base/error.h"
#include "base/text/count_text.h"

namespace tessera {

RankMapping read_mapping(ConfigTable table, int ranks) {
  RankMapping mapping;
  mapping.cluster = table.text("cluster", "");
  mapping.devices = table.texts("devices", {});
  table.finish();
  if (std::ssize(mapping.devices) != ranks)
    throw UserError(table.file() + ": 'mapping' has " +
                        counted(std::ssize(mapping.devices), "device") + " for " +
                        counted(ranks, "rank"),
                    "it has the device of each rank, in the order of the ranks",
                    "make it anew with `tessera simulate --map-ranks`, or remove 'mapping'",
                    ExitCode::kBadConfig);
  std::set<std::string> used;
  for (const std::string& device : mapping.devices)
    if (!used.insert(device).second)
      throw UserError(table.file() + ": 'mapping' names device '" + device + "' twice",
                      "each rank has a device of its own",
                      "make it anew with `tessera simulate --map-ranks`, or remove 'mapping'",
                      ExitCode::kBadConfig);
  return mapping;
}

Document to_document(const RankMapping& mapping) {
  Document document;
  document["cluster"] = mapping.cluster;
  document["devices"] = Document::List(mapping.devices.begin(), mapping.devices.end());
  return document;
}

}  // namespace tessera

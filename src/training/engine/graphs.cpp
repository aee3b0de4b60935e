#include "training/engine/graphs.h"

#include "ir/models/family.h"
#include "ir/models/graphs.h"

namespace tessera {

Graph training_graph(const RunConfig& config) {
  return training_graph(network_of(config.model), config.optimizer, config.train.batch,
                        config.train.seed, config.train.precision);
}

}  // namespace tessera

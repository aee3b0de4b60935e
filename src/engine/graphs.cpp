#include "engine/graphs.h"

#include "network/family.h"
#include "network/graphs.h"

namespace tessera {

Graph training_graph(const RunConfig& config) {
  return training_graph(network_of(config.model), config.optimizer, config.train.batch,
                        config.train.seed, config.train.precision);
}

}  // namespace tessera

// A back-end that only counts: the code that starts a rank can be run on it to learn what a real device would
// hold, which is what its held() says. Computing on it is our own mistake and aborts.
#pragma once

#include <memory>

#include "plan/device_model.h"

namespace tessera {

std::unique_ptr<Backend> make_measuring_backend(DeviceModel device);

}  // namespace tessera

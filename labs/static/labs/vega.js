// The vendored libraries: classic builds that hang themselves on globalThis, loaded in order when first needed.
import "./vendor/vega.min.js";
import "./vendor/vega-lite.min.js";
import "./vendor/vega-embed.min.js";

export const embed = globalThis.vegaEmbed;

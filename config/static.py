"""Static files under hashed names, ES-module imports rewritten to them."""

from whitenoise.storage import CompressedManifestStaticFilesStorage


class ManifestStorage(CompressedManifestStaticFilesStorage):
    """Lets `import "./x.js"` in a module find the hashed name, so that no build step is needed."""

    support_js_module_import_aggregation = True
    # Before collectstatic has run (tests, a developer's first look) the plain name is served.
    manifest_strict = False

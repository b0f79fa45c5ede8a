"""Request and response examples for the OpenAPI document, one module a resource. A test compares their shape with what
the API answers."""

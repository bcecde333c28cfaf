"""The HTTP service: API, pages, limits, authorisation. Composes the road (analyzer.analysis), the renderers and the store."""

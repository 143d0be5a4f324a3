# syntax=docker/dockerfile:1
# The image runs any guest-forms command: `docker run IMAGE serve`, `worker`, `migrate`, `keys list`, …

# Digest from https://github.com/docker-library/repo-info. To update it, run
# `docker buildx imagetools inspect node:24-slim`.
ARG NODE_IMAGE=node:24.21.0-trixie-slim@sha256:8ec5d7557396cfe32d21c3f9c13072355ceab22b584578ca4bb28af31120cffe

FROM ${NODE_IMAGE} AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
COPY prisma/cli-stub prisma/cli-stub
RUN npm ci
COPY README.md CHANGELOG.md SECURITY.md LICENSE .env.example tsconfig.json tsconfig.build.json prisma.config.ts ./
COPY prisma prisma
COPY server server
COPY gateway gateway
COPY deploy deploy
COPY sdk sdk
# The following steps are those of gateway/docs/operating.md#install-a-release.
RUN npm run release && mkdir /opt/guest-forms && tar -xzf guest-forms-*.tgz -C /opt/guest-forms --strip-components=1

FROM ${NODE_IMAGE}
# `container` says that the interfaces are the container's own, as https://systemd.io/CONTAINER_INTERFACE defines it.
ENV NODE_ENV=production HOST=0.0.0.0 container=docker
WORKDIR /opt/guest-forms
COPY --from=build /opt/guest-forms .
USER node
EXPOSE 3000
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT || 3000}/livez`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node", "gateway/guest-forms.cjs"]
CMD ["serve"]
